"""A typical program: it calls two model providers and counts the tokens.

Set SERVICE_DSN to send the counts; without it the program works the same.

    SERVICE_DSN=https://<INGEST_KEY>@<host> python examples/captured_app.py
"""

import anthropic
import openai

import tallystick

tallystick.init(environment="production", prefix_hash=True)

LABELS = "Answer with one of: billing, bug, other."


def main(tickets: int = 40) -> None:
    with openai.OpenAI() as client, anthropic.Anthropic() as claude:
        for number in range(tickets):
            with tallystick.tag("sort-tickets"):
                client.chat.completions.create(
                    model="gpt-5",
                    messages=[
                        {"role": "system", "content": LABELS},
                        {"role": "user", "content": f"Ticket {number}"},
                    ],
                    max_completion_tokens=64,
                )
        claude.messages.create(
            model="claude-sonnet-4-6",
            max_tokens=1_024,
            messages=[{"role": "user", "content": "Sum up the day."}],
        )


if __name__ == "__main__":
    main()
