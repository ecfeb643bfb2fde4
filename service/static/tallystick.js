// What every page gains from JavaScript, and can do without: local times, copying, evidence.
"use strict";

for (const moment of document.querySelectorAll("time[datetime]")) {
  const date = new Date(moment.dateTime);
  if (!Number.isNaN(date.getTime())) {
    moment.title = `${date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" })} your time`;
  }
}

for (const block of document.querySelectorAll(".copyable")) {
  const button = block.querySelector("button");
  if (!button || !navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    const words = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = words; }, 2000);
  });
}
