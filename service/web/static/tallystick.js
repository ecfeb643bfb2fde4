// Optional extras on every page: local times and copy buttons.
"use strict";

function showLocalTimes(root) {
  for (const moment of root.querySelectorAll("time[datetime]")) {
    const date = new Date(moment.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const local = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    moment.title = `${local} (your time zone)`;
  }
}

showLocalTimes(document);

for (const block of document.querySelectorAll(".copyable")) {
  const button = block.querySelector("button");
  if (!button || !navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
