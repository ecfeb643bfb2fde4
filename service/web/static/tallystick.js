// What every page gains from JavaScript, and can do without: local times, copying, evidence.
"use strict";

function tellLocalTimes(place) {
  for (const moment of place.querySelectorAll("time[datetime]")) {
    const date = new Date(moment.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const local = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    moment.title = `${local} your time`;
  }
}

tellLocalTimes(document);

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
