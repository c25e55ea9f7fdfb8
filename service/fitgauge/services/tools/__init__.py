"""The forgiving face for agents: seven tools with few parameters and short answers."""
