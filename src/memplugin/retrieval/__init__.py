"""From a query to ranked candidates, and which of them apply here."""
