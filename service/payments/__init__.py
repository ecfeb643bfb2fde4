"""Payments: verify events of payment providers, find the payer, grant credits and plans.

Importing this loads no payment provider's library; `service.payments.webhooks` loads the configured
ones.
"""

from service.payments.links import payment_links
from service.payments.manual import ManualPayment, mark_paid
from service.payments.owners import adopt_payments

__all__ = ["ManualPayment", "adopt_payments", "mark_paid", "payment_links"]
