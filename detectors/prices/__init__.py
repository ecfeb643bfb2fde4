"""The cost of a call: the price book on top of genai-prices, and data files with sources.

Import `PriceBook` from `detectors.prices.book`, because loading the price data takes time.
"""
