"""The boundary self-test: a real machine, attacked from inside, through the real path."""
