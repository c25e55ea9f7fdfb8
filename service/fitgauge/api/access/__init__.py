"""Who may ask: callers, their credentials, their limits. docs/ACCESS.md describes it."""
