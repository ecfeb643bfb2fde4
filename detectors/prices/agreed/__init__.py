"""What a customer has agreed with providers: discounts, rates and names of their own."""
