"""The framework: passes, registry, pipeline text, plan, manager and instruments."""
