"""A local GitHub and a scripted model: stateful stand-ins for the demo and the tests."""
