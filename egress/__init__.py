"""The only way out of a machine: grants, decisions, injected credentials, meter and audit."""
