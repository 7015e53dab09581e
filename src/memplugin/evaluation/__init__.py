"""The lab: suites, runs, and the tables that say what to mend first (extra ``lab``)."""
