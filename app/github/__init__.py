"""GitHub: tokens for one repository and one purpose, and the few calls that Drydock makes.

Import from `auth` (TokenSource), `gateway` (GitHubGateway and its values) and `errors`.
"""
