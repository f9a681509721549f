"""`python -m cli` is the `drydock` command."""

from cli.main import main

main()
