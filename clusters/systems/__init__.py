"""What a system under test is: its versions, its recipe, its configuration."""
