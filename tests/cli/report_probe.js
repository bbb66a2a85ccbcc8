// What a browser sees of a report: whether the page is as wide as its window, tables that have to be scrolled where there is room
// (from 800 pixels), labels of charts that stick out of their drawing,
// and texts with less than 4.5:1 against their ground (WCAG 2.2, success criterion 1.4.3).
const channels = (text) => {
  const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
  return { rgb: [red, green, blue], alpha };
};
const luminance = (rgb) => {
  const [red, green, blue] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.alpha > 0) return colour.rgb;
  }
  return [255, 255, 255];
};
const isShown = (element) => element.getClientRects().length > 0;
let cut = 0, pale = 0, first = "";
for (const svg of document.querySelectorAll("svg")) {
  if (!isShown(svg)) continue;
  const frame = svg.getBoundingClientRect();
  for (const label of svg.querySelectorAll("text")) {
    const box = label.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
      cut += 1;
      first ||= label.textContent;
    }
  }
}
for (const element of document.querySelectorAll("body *")) {
  const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!hasText || !isShown(element) || ["SCRIPT", "STYLE", "title", "desc"].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const colour = channels(element.tagName === "text" ? style.fill : style.color).rgb;
  const [low, high] = [luminance(colour), luminance(ground(element))].sort((a, b) => a - b);
  if ((high + 0.05) / (low + 0.05) < 4.5) {
    pale += 1;
    first ||= element.textContent;
  }
}
const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const width = document.documentElement.scrollWidth;
const wide = [...document.querySelectorAll(".table")].filter((table) => innerWidth >= 800 && table.scrollWidth > table.clientWidth + 1);
first ||= wide.map((table) => table.getAttribute("aria-labelledby")).join(" ");
parent.postMessage(`${scheme}: width ${width} of ${innerWidth}, ${wide.length} wide tables, ${cut} cut labels, ${pale} pale texts: ${first}`, "*");
