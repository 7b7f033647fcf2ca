"""The page of a run: SVG and CSS written here, nothing fetched, no script."""
