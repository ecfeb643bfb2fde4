// Filters over the findings, kept in the URL; evidence is fetched when its section is opened.
/* global showLocalTimes */
"use strict";

const filters = document.querySelector("form.filters");

function applyFilters() {
  const wanted = new FormData(filters);
  const findings = [...document.querySelectorAll(".finding, .list tbody tr")];
  for (const finding of findings) finding.hidden = !matches(finding, wanted);
  const shown = findings.filter((finding) => !finding.hidden);
  filters.querySelector("output").textContent =
    shown.length && shown.length < findings.length ? `Showing ${shown.length} of ${findings.length} findings.` : "";
  document.querySelector("#no-match").hidden = shown.length > 0;
  const listed = document.querySelector("#listed-findings");
  if (listed) listed.hidden = !listed.querySelector("tbody tr:not([hidden])");
}

function matches(finding, wanted) {
  const label = wanted.get("route").trim().toLowerCase();
  const contains = (text) => text.textContent.toLowerCase().includes(label);
  return (
    ["", finding.id.split("-")[0]].includes(wanted.get("detector")) && // d1-001 is of detector d1
    finding.querySelector(".severity").textContent.toLowerCase().startsWith(wanted.get("severity")) &&
    [...finding.querySelectorAll("bdi")].some(contains)
  );
}

function saveFilters() {
  const query = new URLSearchParams(new FormData(filters));
  for (const [name, value] of [...query]) if (!value.trim()) query.delete(name);
  const search = query.size ? `?${query}` : "";
  history.replaceState(history.state, "", location.pathname + search + location.hash);
}

// Unknown values, as of a detector without findings, leave the field as it is.
function restoreFilters() {
  for (const [name, value] of new URLSearchParams(location.search)) {
    const field = filters.elements.namedItem(name);
    if (!field) continue;
    if (field.options && ![...field.options].some((option) => option.value === value)) continue;
    field.value = value;
  }
}

function changeFilters() {
  applyFilters();
  saveFilters();
}

if (filters) {
  restoreFilters();
  applyFilters();
  filters.addEventListener("input", changeFilters);
  filters.addEventListener("reset", () => setTimeout(changeFilters)); // fields are reset after the event
  filters.addEventListener("submit", (event) => event.preventDefault());
}

async function loadEvidence(section) {
  const link = section.querySelector("a[data-evidence]");
  if (!section.open || !link) return;
  try {
    const response = await fetch(link.href);
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const table = page.querySelector("#evidence");
    if (!table) return;
    table.removeAttribute("id");
    showLocalTimes(table);
    link.replaceWith(table);
  } catch {
    // The link to the same calls stays.
  }
}

for (const section of document.querySelectorAll("details.evidence")) {
  section.addEventListener("toggle", () => loadEvidence(section));
}
