"""What the tests share: data, projects, studies, services, faults and stored results."""
