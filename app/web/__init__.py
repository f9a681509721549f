"""The web application: webhooks in, health, metrics and a dashboard out. It never calls GitHub."""
