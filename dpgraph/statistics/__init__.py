"""What is sensitive: exact counts that add, and the engines that make them."""
