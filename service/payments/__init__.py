"""Payments: what providers tell of them, whose they are, and what they buy.

Importing this loads no provider's library; `service.payments.webhooks` does for those configured.
"""

from service.payments.links import payment_links
from service.payments.manual import ManualPayment, mark_paid
from service.payments.owners import adopt_payments

__all__ = ["ManualPayment", "adopt_payments", "mark_paid", "payment_links"]
