// Light or dark: as the system says, until the button is pressed.
"use strict";
const themeButton = document.getElementById("theme");
const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");

function currentTheme() {
  return document.documentElement.dataset.theme || (systemIsDark.matches ? "dark" : "light");
}

function showTheme() {
  themeButton.setAttribute("aria-pressed", String(currentTheme() === "dark"));
  document.dispatchEvent(new Event("themechange"));
}

themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
  showTheme();
});
systemIsDark.addEventListener("change", showTheme);
showTheme();
