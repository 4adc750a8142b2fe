"""Names under which programs of others look for tools of version 0.4."""
