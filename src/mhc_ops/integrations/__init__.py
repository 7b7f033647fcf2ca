"""Ways into other libraries: their models and their checkpoints. Nothing is imported here."""
