"""Planning: from fabric and traffic to plans, and their comparison, documents and failure analysis."""
