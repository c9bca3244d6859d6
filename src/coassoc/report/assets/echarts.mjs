// The parts of Apache ECharts that the page uses. echarts.min.js is made from this file and committed. (6.1.0 paints heat
// maps a frame too late for printing.)
//   npm install echarts@6.0.0 esbuild@0.28.2
//   npx esbuild echarts.mjs --bundle --minify --format=iife --global-name=echarts --legal-comments=none \
//     --banner:js="/*! Apache ECharts 6.0.0, Apache-2.0; see LICENSE-echarts.txt */" --outfile=echarts.min.js
export { init } from "echarts/core";
import { use } from "echarts/core";
import { BarChart, HeatmapChart, LineChart, SankeyChart, ScatterChart, TreeChart } from "echarts/charts";
import { GridComponent, LegendComponent, MarkAreaComponent, MarkLineComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import { LabelLayout } from "echarts/features";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";
use([BarChart, HeatmapChart, LineChart, SankeyChart, ScatterChart, TreeChart, GridComponent, LegendComponent,
  MarkAreaComponent, MarkLineComponent, TooltipComponent, VisualMapComponent, LabelLayout, CanvasRenderer, SVGRenderer]);
