"""Pages that people look at: HTML, SVG and CSS written here, nothing fetched, no script."""
