// Values in figures: shows the value of the mark near the pointer; the arrow keys move to the next or previous mark.

function showValues(plate) {
  const picture = plate.querySelector("svg");
  const points = JSON.parse(picture.querySelector("metadata.values").textContent);
  const frame = document.createElement("div");
  const tip = document.createElement("div");
  const dot = document.createElement("div");
  frame.className = "values-on";
  tip.className = "value-tip";
  tip.setAttribute("role", "status");
  dot.className = "value-dot";
  picture.replaceWith(frame);
  frame.append(picture, dot, tip);
  let place = -1;

  function show(number) {
    place = number;
    const point = points[number];
    tip.hidden = dot.hidden = !point;
    if (!point) return;
    const [x, y, text] = point;
    tip.textContent = text;
    dot.style.left = tip.style.left = `${100 * x}%`;
    dot.style.top = tip.style.top = `${100 * y}%`;
    tip.style.transform = `translate(${x > 0.7 ? "calc(-100% - 12px)" : "12px"}, ${y > 0.8 ? "calc(-100% - 8px)" : "8px"})`;
  }

  frame.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const distance = ([x, y]) =>
      Math.hypot(box.left + x * box.width - event.clientX, box.top + y * box.height - event.clientY);
    let nearest = -1;
    points.forEach((point, number) => {
      if (nearest < 0 || distance(point) < distance(points[nearest])) nearest = number;
    });
    show(nearest >= 0 && distance(points[nearest]) < 24 ? nearest : -1);
  });
  frame.addEventListener("pointerleave", () => show(-1));
  plate.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      event.preventDefault();
      show((place + step + points.length + (place < 0 && step < 0 ? 1 : 0)) % points.length);
    }
    if (event.key === "Escape") show(-1);
  });
  show(-1);
}

for (const plate of document.querySelectorAll(".plate")) if (plate.querySelector("metadata.values")) showValues(plate);
