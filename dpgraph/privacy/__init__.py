"""What is promised and what was spent; knows no network and no rows."""
