"""Does what `app` decided: drives runs, checks out, judges, pushes, publishes."""
