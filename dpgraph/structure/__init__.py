"""What is public: the domain, the DAG, and tables over them."""
