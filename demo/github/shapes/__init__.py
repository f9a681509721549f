"""Records as GitHub's JSON: pure functions from a view and a record to a dictionary."""
