"""What people see of a run: tables, differences, progress, pages."""
