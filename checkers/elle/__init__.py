"""Elle's analysis of transactions: which consistency models a history of list-append or rw-register rules out, and why."""
