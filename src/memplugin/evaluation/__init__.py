"""The lab (extra ``lab``): suites of tasks, their runs, and reports on the results.

A suite says what was remembered, what is requested and which answer is right. A run of it
shows which stage fails how often, what is written and recalled, and what memory is worth.
"""
