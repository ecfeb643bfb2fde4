// Filters over the findings, and evidence that is fetched when its fold is opened.
/* global tellLocalTimes */
"use strict";

const filters = document.querySelector("form.filters");

function applyFilters() {
  const wanted = new FormData(filters);
  const label = wanted.get("route").trim().toLowerCase();
  const findings = document.querySelectorAll(".finding, .list tbody tr");
  let shown = 0;
  for (const finding of findings) {
    // An id begins with its detector: d1-001.
    const fits =
      finding.id.startsWith(wanted.get("detector")) &&
      (finding.querySelector(".severity").textContent.toLowerCase()).startsWith(wanted.get("severity")) &&
      Array.from(finding.querySelectorAll("bdi")).some((one) => one.textContent.toLowerCase().includes(label));
    finding.hidden = !fits;
    shown += fits ? 1 : 0;
  }
  filters.querySelector("output").textContent =
    shown === findings.length ? "" : `${shown} of ${findings.length} findings shown.`;
}

if (filters) {
  filters.addEventListener("input", applyFilters);
  filters.addEventListener("reset", () => setTimeout(applyFilters));
  filters.addEventListener("submit", (event) => event.preventDefault());
}

async function loadEvidence(fold) {
  const link = fold.querySelector("a[data-evidence]");
  if (!fold.open || !link) return;
  try {
    const answer = await fetch(link.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const table = page.querySelector("#evidence");
    if (!table) return;
    table.removeAttribute("id");
    tellLocalTimes(table);
    link.replaceWith(table);
  } catch {
    // The link stays, and leads to the same calls.
  }
}

for (const fold of document.querySelectorAll("details.evidence")) {
  fold.addEventListener("toggle", () => loadEvidence(fold));
}
