"""Plain pages for a browser: an issue, a pull request, a commit, a check."""
