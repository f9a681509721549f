"""The `drydock` command. Imports everything, is imported by nothing."""
