"""Preference and RL training: the models of an algorithm, the rollout engine beside them, and
the phases of a step."""
