// Creates or uses a passkey when its form is sent, and sends the answer along.
"use strict";

const BINARY = ["clientDataJSON", "attestationObject", "authenticatorData", "signature"];

function toBytes(text) {
  const binary = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function toText(buffer) {
  const binary = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function withBytes(options) {
  const known = (listed) => (listed || []).map((one) => ({ ...one, id: toBytes(one.id) }));
  const read = { ...options, challenge: toBytes(options.challenge) };
  if (options.user) read.user = { ...options.user, id: toBytes(options.user.id) };
  if (options.excludeCredentials) read.excludeCredentials = known(options.excludeCredentials);
  if (options.allowCredentials) read.allowCredentials = known(options.allowCredentials);
  return read;
}

function toJson(credential) {
  const response = {};
  for (const name of BINARY) {
    if (credential.response[name]) response[name] = toText(credential.response[name]);
  }
  const { id, type } = credential;
  return JSON.stringify({ id, rawId: toText(credential.rawId), type, response });
}

async function answer(form) {
  const publicKey = withBytes(JSON.parse(form.dataset.options));
  const container = navigator.credentials;
  const asked = publicKey.user ? container.create({ publicKey }) : container.get({ publicKey });
  form.elements.credential.value = toJson(await asked);
  form.submit();
}

for (const form of document.querySelectorAll("form[data-options]")) {
  form.hidden = !window.PublicKeyCredential;
  document.querySelector("#unsupported").hidden = !form.hidden;
  const problem = form.querySelector(".problem"), button = form.querySelector("button");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    problem.hidden = true;
    button.disabled = true;
    answer(form).catch((error) => {
      problem.textContent = error.name === "InvalidStateError"
        ? "Your account already has this passkey."
        : "Nothing happened, or you canceled. Try again.";
      problem.hidden = false;
      button.disabled = false;
    });
  });
}
