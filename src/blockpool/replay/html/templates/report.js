// Draws all charts, and again when the theme changes. `data-drawn` on the root names the theme that is drawn.
"use strict";
const drawing = JSON.parse(document.getElementById("drawing").textContent);
const views = new Map();
let lastDrawing = Promise.resolve();

async function drawChart(number, theme) {
  const place = document.getElementById(`chart-${number}`);
  const { spec, renderer } = drawing.charts[number];
  try {
    views.get(number)?.finalize();
    views.set(number, await vegaEmbed(place, spec, {
      config: drawing.themes[theme], renderer, actions: false, tooltip: { theme },
    }));
  } catch (error) {
    place.textContent = "This chart could not be drawn; its numbers are in the tables.";
    console.error(error);
  }
}

async function drawAll() {
  const theme = currentTheme();
  if (document.documentElement.dataset.drawn === theme) return;
  for (const number of drawing.charts.keys()) await drawChart(number, theme);
  document.documentElement.dataset.drawn = theme;
}

function drawSoon() {
  lastDrawing = lastDrawing.then(drawAll);
}

document.addEventListener("themechange", drawSoon);
drawSoon();
