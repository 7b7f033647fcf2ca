"""MhcPre and MhcPreBackward."""
