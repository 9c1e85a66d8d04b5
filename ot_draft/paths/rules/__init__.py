"""Path rules: selection along whole drafted paths and trees, one file each."""
