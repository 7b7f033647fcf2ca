"""What the operators' rooms share: checks, outputs, registration, orders of summation."""
