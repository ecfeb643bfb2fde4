"""What a call costs: the price book over genai-prices, and the data files beside it.

`PriceBook` is imported from `detectors.prices.book`, since loading the price data takes time.
"""
