"""Machines: disposable guests without network or credential. Knows nothing of GitHub."""
