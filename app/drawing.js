// Saves a picture that is HTML (`page.drawing`) as PNG, as it is drawn now. Runs within the palette, which each page has.

function saveDrawing(button) {
  const drawn = button.parentElement, size = drawn.getBoundingClientRect(), copy = drawn.cloneNode(true);
  const styled = [[drawn, copy]];
  while (styled.length) {  // no style sheet reaches the copy
    const [from, to] = styled.pop(), style = getComputedStyle(from);
    for (const name of style) to.style.setProperty(name, style.getPropertyValue(name));
    [...from.children].forEach((child, at) => styled.push([child, to.children[at]]));
  }
  copy.querySelector(".ra-png").remove();
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}"><foreignObject width="100%" height="100%">`
    + new XMLSerializer().serializeToString(copy) + "</foreignObject></svg>";
  const image = new Image(), scale = window.devicePixelRatio || 1;
  image.onload = () => {
    const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
    canvas.width = size.width * scale; canvas.height = size.height * scale;
    context.fillStyle = getComputedStyle(drawn).getPropertyValue("--st-background-color").trim() || getComputedStyle(document.querySelector("[data-testid=stApp]")).backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.scale(scale, scale);
    context.drawImage(image, 0, 0);
    canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = drawn.dataset.name.toLowerCase().replace(/[^a-z0-9]+/g, "-") + ".png";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
}

