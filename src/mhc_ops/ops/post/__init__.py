"""MhcPost and MhcPostBackward."""
