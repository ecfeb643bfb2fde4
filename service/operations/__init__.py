"""What whoever runs an installation needs: admin, maintenance, metrics, the local stack."""
