// Filters over the findings, and evidence that is fetched when its fold is opened.
"use strict";

const filters = document.querySelector("form.filters");

function applyFilters() {
  const wanted = new FormData(filters);
  const route = wanted.get("route").trim().toLowerCase();
  let shown = 0;
  const findings = document.querySelectorAll("[data-detector]");
  for (const finding of findings) {
    const fits =
      (!wanted.get("detector") || finding.dataset.detector === wanted.get("detector")) &&
      (!wanted.get("severity") || finding.dataset.severity === wanted.get("severity")) &&
      (!route || finding.querySelector(".route").textContent.toLowerCase().includes(route));
    finding.hidden = !fits;
    shown += fits ? 1 : 0;
  }
  filters.querySelector("output").textContent =
    shown === findings.length ? "" : `${shown} of ${findings.length} findings shown.`;
}

if (filters) {
  filters.hidden = false;
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
    if (table) link.replaceWith(table);
    if (table) table.removeAttribute("id");
  } catch {
    // The link stays, and leads to the same calls.
  }
}

for (const fold of document.querySelectorAll("details.evidence")) {
  fold.addEventListener("toggle", () => loadEvidence(fold));
}
