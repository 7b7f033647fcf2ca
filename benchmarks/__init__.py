"""Measured speed; see run.py."""
