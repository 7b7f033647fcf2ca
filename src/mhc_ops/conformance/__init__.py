"""Judging results against published criteria and running published cases."""
